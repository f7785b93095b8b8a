"""Raw parallel text to the binary data of fairseq, for any language pair."""
