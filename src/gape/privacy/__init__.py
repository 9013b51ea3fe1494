"""Accounting, noise, releases and the ledger: everything that the guarantee rests on."""

from gape.privacy.accounting import Release, delta_spent, noise_scale, paper_noise_scale, spent

__all__ = ["Release", "delta_spent", "noise_scale", "paper_noise_scale", "spent"]
