"""The shared client core: connections, requests matched to answers, name servers, routes."""
