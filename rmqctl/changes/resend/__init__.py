"""Having a group consume one message once more."""
