"""Terms without noise, to see that the sum is exact."""

from dataclasses import replace

from votes_from_devices.agreement import TERMS

EXACT = replace(TERMS, sigma=0.0, exact_sums_for_tests_only=True)
