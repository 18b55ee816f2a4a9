"""The checks, one a file, named by their codes. They are pure: facts in, symptoms out."""
