"""The words that everything else is written in: arrays by role, errors, protocols, and when texts are near copies."""
