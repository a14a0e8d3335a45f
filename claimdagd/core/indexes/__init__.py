"""What is derived from the records and kept beside them. Import the modules; this file imports nothing."""
