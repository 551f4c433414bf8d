"""The admin HTTP: metrics, health, the JSON API and the live page."""
