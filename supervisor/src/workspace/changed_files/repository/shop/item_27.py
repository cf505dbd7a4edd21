price = 27
