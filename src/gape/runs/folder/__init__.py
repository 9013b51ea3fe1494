"""The folder of a run. All other modules read and write it through here."""
