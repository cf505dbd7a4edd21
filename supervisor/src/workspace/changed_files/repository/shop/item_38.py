price = 38
