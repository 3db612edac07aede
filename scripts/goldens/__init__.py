"""One module a family of goldens; scripts/ops_goldens.py runs them all and says what lies in which file."""
