"""Stores as a whole: verified, repaired, merged, and their arrays written anew."""
