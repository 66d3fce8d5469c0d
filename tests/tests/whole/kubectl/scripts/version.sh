kubectl version -o json | grep minor | tail -1
