"""Raw parallel text to fairseq's binary data, for any language pair."""
