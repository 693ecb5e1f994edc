"""The scenario "gateway": requests accepted and delivered a second, statuses, and clients that wait."""
