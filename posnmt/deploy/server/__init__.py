"""An HTTP server for trained models, with the interfaces of LibreTranslate and DeepL and one of its own."""
