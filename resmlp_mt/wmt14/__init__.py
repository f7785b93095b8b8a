"""The paper's experiment: WMT14 English-German and English-French."""
