# Made-up nodes: cordon, drain, taint.

kubectl create namespace nodes

kubectl get nodes -o name

kubectl get nodes | awk '{print $1, $2, $3}'

kubectl create deployment web --image=nginx:1.27 --replicas=6 && kubectl rollout status deployment/web --timeout=60s

kubectl get pods -o custom-columns=NODE:.spec.nodeName --no-headers | sort | uniq -c

kubectl cordon node-1

kubectl get nodes | awk '{print $1, $2}'

kubectl drain node-1 --ignore-daemonsets --timeout=60s | grep -v '^pod/\|^evicting' 

kubectl rollout status deployment/web --timeout=60s

kubectl get pods -o custom-columns=NODE:.spec.nodeName --no-headers | sort | uniq -c | grep -c node-1

kubectl run alone --image=busybox --overrides='{"spec":{"nodeName":"node-2"}}' && kubectl wait pod/alone --for=condition=Ready --timeout=60s

kubectl drain node-2 --timeout=60s 2>&1 | grep -v '^pod/\|^evicting\|^node'

kubectl drain node-2 --force --timeout=60s > /dev/null 2>&1; kubectl get pod alone

kubectl uncordon node-1 && kubectl uncordon node-2

kubectl taint nodes node-3 dedicated=database:NoSchedule

kubectl describe node node-3 | grep -A1 '^Taints:'

kubectl taint nodes node-3 dedicated-

kubectl label node node-3 disk=fast && kubectl get nodes -l disk=fast -o name && kubectl label node node-3 disk-

kubectl delete namespace nodes
