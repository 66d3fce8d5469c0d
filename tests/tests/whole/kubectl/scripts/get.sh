# `kubectl get`, `describe`, `explain`, `events`, `wait`, `api-resources`.

kubectl create namespace get

kubectl get pods

kubectl apply -f shop.yaml -f crd.yaml

kubectl wait --for=condition=Established crd/lamps.get.windlass.dev --timeout=30s

kubectl rollout status deployment/shop --timeout=60s

kubectl get deployments

kubectl get deploy shop -o wide

kubectl get pods --sort-by=.metadata.name

kubectl get pods -o wide --sort-by=.spec.nodeName

kubectl get rs -o wide

kubectl get svc,cm

kubectl get all

kubectl get deployment shop -o name

kubectl get deployment shop -o json | grep -c .

kubectl get deployment shop -o custom-columns=NAME:.metadata.name,IMAGE:.spec.template.spec.containers[0].image

kubectl get deployment shop -o go-template='{{.spec.replicas}}'

kubectl get pods -l app=shop -L app --show-labels

kubectl get pods --field-selector=status.phase=Running -o name | wc -l

kubectl get namespaces get default

kubectl get namespace get -o yaml

kubectl apply -f lamp.yaml

kubectl get lamps

kubectl get lamps -o wide

kubectl get lm kitchen -o yaml

kubectl get lamp,configmap

kubectl describe lamp kitchen

kubectl apply -f bad-lamp.yaml

kubectl scale lamp kitchen --replicas=3

kubectl explain lamp.spec

kubectl explain deployment.spec.strategy

kubectl explain pod --recursive | head -60

kubectl explain configmap

kubectl explain nothing

kubectl get nothing

kubectl get pod nothing

kubectl get pods -n nowhere

kubectl describe deployment shop | sed '/^Events:/,$d'

kubectl describe pods | grep -E '^(Namespace|Labels|Status|Controlled By|Containers|    Image):'

kubectl describe namespace get

kubectl describe service shop | grep -v '^Endpoints:'

kubectl get endpointslices -l kubernetes.io/service-name=shop -o jsonpath='{.items[*].ports}{.items[*].endpoints[*].conditions}'

kubectl events --for deployment/shop | wc -l

kubectl wait pods -l app=shop --for=condition=Ready --timeout=60s

# kubectl may say that its watch was short.
kubectl wait deployment/shop --for=delete --timeout=1s 2>&1 | grep -v reflector

kubectl wait deployment/shop --for=condition=Nonsense --timeout=1s

kubectl get configmap settings --watch --output-watch-events > watched &
until grep -qs ADDED watched; do sleep 0.1; done
kubectl label configmap settings colour=blue
kubectl delete configmap settings
until grep -qs DELETED watched; do sleep 0.1; done
kill $!; cat watched

kubectl api-resources --api-group=apps

kubectl api-resources --api-group=get.windlass.dev -o wide

kubectl api-versions | grep -E '^(v1|apps/v1|get.windlass.dev/v1)$'

kubectl auth can-i create pods

kubectl auth can-i create pods --as=nobody

kubectl delete pods --all --wait=false | wc -l

kubectl delete crd lamps.get.windlass.dev

kubectl delete namespace get
