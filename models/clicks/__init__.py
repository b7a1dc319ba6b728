"""Clicks: the contextual beta-binomial of Takahashi & Zhang (2017), its posterior, scores and measures."""
