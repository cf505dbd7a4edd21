#!/bin/sh
# Makes the repository beside this script with git, in the current directory: two commits in a pack whose trees are deltas, and
# one in loose objects.
set -e
git init -q -b main .
mkdir shop
for number in $(seq 40); do echo "price = $number" > "shop/item_$number.py"; done
echo "prices = 1" > shop/prices.py
echo "cart = 1" > shop/cart.py
echo "old = 1" > old.py
git add old.py shop
git commit -qm zero
echo "prices = 2" > shop/prices.py
git commit -qam one
git tag -a v1 -m v1
git gc -q --aggressive --prune=now
git pack-refs --all
git rm -q old.py
echo "new = 1" > new.py
echo "prices = 3" > shop/prices.py
git add new.py shop
git commit -qm two
rm -rf .git/hooks .git/logs .git/info .git/description .git/COMMIT_EDITMSG .git/branches .git/objects/info
mv .git dot-git
