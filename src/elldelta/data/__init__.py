"""Tables, schemas and files: everything between the records and the pure core."""
