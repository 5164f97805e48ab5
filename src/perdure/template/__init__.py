"""Open Job Description templates and the CHECKPOINT extension: load, validate, make a Job."""
