"""Commands that try changes out before anybody makes them."""
