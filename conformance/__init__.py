"""The requirement catalogue, the checks that test it, and the verdicts they lead to."""
