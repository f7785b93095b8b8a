"""Pictures of a trained model, drawn at the size at which they are printed. Needs matplotlib."""
