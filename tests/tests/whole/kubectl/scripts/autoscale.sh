# Autoscalers, without a controller that acts on them.

kubectl create namespace autoscale

kubectl create deployment web --image=nginx:1.27 && kubectl autoscale deployment web --min=1 --max=3 --cpu=80%

kubectl get horizontalpodautoscalers

kubectl delete namespace autoscale
