"""Tools that only the staff run: stubs, handout, the students' release, calibration."""
