"""What pages on 127.0.0.1 share: who may read them (`tokens`, `secure`), and who serves them (`serving`)."""
