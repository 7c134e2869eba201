"""A mutation tester for the maths: it changes one thing in the code and looks whether a test notices."""
