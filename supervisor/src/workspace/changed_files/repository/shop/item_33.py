price = 33
