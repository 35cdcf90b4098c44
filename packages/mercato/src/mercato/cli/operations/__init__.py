"""What operators do with the data of a service: find, repair, copy and erase."""
