"""One module per family of goldens; scripts/ops_goldens.py runs all of them and lists the contents of each file."""
