"""What the compiler reported of a program, arranged for reading. Pure: the report goes in, rows and drawings come out."""
