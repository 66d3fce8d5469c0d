# `kubectl create` and `kubectl run`: most of these send protobuf.

kubectl create namespace create

kubectl create namespace create

kubectl create configmap settings --from-literal=a=1 --from-literal=b=2

kubectl create configmap settings --from-literal=a=1

kubectl get configmap settings -o jsonpath='{.data.a} {.data.b}'

kubectl create secret generic password --from-literal=word=geheim

kubectl get secret password -o yaml

kubectl create secret docker-registry registry --docker-username=u --docker-password=p

kubectl create deployment web --image=nginx:1.27 --replicas=2 --port=80

kubectl rollout status deployment/web --timeout=60s

kubectl get deployment web -o yaml | sed '/^status:/,$d'

kubectl expose deployment web --port=80 --target-port=8080

kubectl get service web -o jsonpath='{.spec.ports}{"\n"}{.spec.selector}{"\n"}{.spec.type}'

kubectl create job once --image=busybox -- date

kubectl get job once -o jsonpath='{.spec.template.spec.containers[0].command}'

kubectl create cronjob nightly --image=busybox --schedule='0 3 * * *' -- date

kubectl create role reader --verb=get,list --resource=pods,configmaps

kubectl describe role reader

kubectl create rolebinding readers --role=reader --user=anna --serviceaccount=create:default

kubectl describe rolebinding readers

kubectl create clusterrole kubectl-create-reader --verb=get --resource=nodes

kubectl delete clusterrole kubectl-create-reader

kubectl create serviceaccount robot

kubectl create quota few --hard=pods=10

kubectl create priorityclass kubectl-create-high --value=1000

kubectl delete priorityclass kubectl-create-high

kubectl create poddisruptionbudget web --selector=app=web --min-available=1

kubectl create ingress web --rule='example.com/*=web:80'

kubectl run shell --image=busybox --restart=Never -- sleep 1

kubectl create configmap Bad_Name --from-literal=a=1

kubectl create deployment web --image=nginx:1.27

kubectl create configmap settings --from-literal=a=1 -n nowhere

kubectl create configmap preview --from-literal=a=1 --dry-run=server -o yaml

kubectl create configmap preview --from-literal=a=1 --dry-run=client -o yaml

kubectl delete namespace create
