"""The program: settings, command line, starting and stopping. The only package that knows all the others."""
