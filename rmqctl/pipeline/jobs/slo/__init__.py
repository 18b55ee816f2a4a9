"""The job slo: the time in which groups were within limits, week by week."""
