"""An HTTP server for trained models with three interfaces: LibreTranslate's, DeepL's, and posnmt's own."""
