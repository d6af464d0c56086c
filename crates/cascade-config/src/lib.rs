//! YAML configurations, checked and assembled into a cascade
