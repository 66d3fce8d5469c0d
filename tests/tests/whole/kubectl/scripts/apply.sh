# `kubectl apply` in its forms, and what changes objects afterwards.

kubectl create namespace apply

kubectl diff -f shop.yaml > /dev/null; echo "diff says $?"

kubectl apply -f shop.yaml

kubectl apply -f shop.yaml

kubectl rollout status deployment/shop --timeout=60s

kubectl diff -f shop.yaml; echo "diff says $?"

sed 's/nginx:1.27/nginx:1.28/; s/replicas: 2/replicas: 3/' shop.yaml > changed.yaml
kubectl diff -f changed.yaml | grep '^[+-] ' ; kubectl apply -f changed.yaml

kubectl rollout status deployment/shop --timeout=60s

kubectl rollout history deployment/shop

kubectl rollout undo deployment/shop && kubectl rollout status deployment/shop --timeout=60s

kubectl get deployment shop -o jsonpath='{.spec.template.spec.containers[*].image}'

kubectl set image deployment/shop web=nginx:1.29 && kubectl rollout status deployment/shop --timeout=60s

kubectl set env deployment/shop COLOUR=blue && kubectl rollout status deployment/shop --timeout=60s

kubectl set resources deployment/shop -c web --limits=cpu=100m,memory=64Mi

kubectl rollout pause deployment/shop

kubectl rollout resume deployment/shop && kubectl rollout status deployment/shop --timeout=60s

kubectl rollout restart deployment/shop > /dev/null && kubectl rollout status deployment/shop --timeout=60s | tail -1

kubectl get deployment shop -o jsonpath='{.spec.template.spec.containers}'

kubectl scale deployment/shop --replicas=1 && kubectl wait deployment/shop --for=jsonpath='{.status.availableReplicas}'=1 --timeout=60s

kubectl scale deployment/shop --current-replicas=5 --replicas=2

kubectl label deployment shop tier=front

kubectl label deployment shop tier=back

kubectl label deployment shop tier=back --overwrite && kubectl label deployment shop tier-

kubectl annotate deployment shop note='by hand'

kubectl patch deployment shop -p '{"spec":{"template":{"spec":{"containers":[{"name":"web","env":[{"name":"COLOUR","value":"red"}]}]}}}}'

kubectl rollout status deployment/shop --timeout=60s

kubectl patch deployment shop --type=json -p '[{"op":"replace","path":"/spec/replicas","value":1}]'

# The refusal quotes the whole object.
kubectl patch deployment shop --type=merge -p '{"spec":{"replicas":"many"}}' 2>&1 | sed 's/"{.*}"/"{}"/'

kubectl get deployment shop -o jsonpath='{.spec.template.spec.containers[0].env}'

EDITOR="sed -i s/by.hand/by.editor/" kubectl edit deployment shop

kubectl get deployment shop -o jsonpath='{.metadata.annotations.note}'

kubectl apply --server-side -f settings.yaml

kubectl apply --server-side --field-manager=other -f settings-other.yaml

kubectl apply --server-side --field-manager=other --force-conflicts -f settings-other.yaml

kubectl get configmap settings -o yaml --show-managed-fields | grep -E 'manager|operation|f:'

kubectl apply --server-side -f shop.yaml --force-conflicts

kubectl apply -f bad.yaml

kubectl apply --validate=warn -f bad.yaml

kubectl apply --validate=ignore -f bad.yaml

kubectl apply -f set.yaml --prune -l set=one --prune-allowlist=core/v1/ConfigMap

sed '/^---/,$d' set.yaml > smaller.yaml && kubectl apply -f smaller.yaml --prune -l set=one --prune-allowlist=core/v1/ConfigMap

kubectl get configmaps -l set=one -o name

kubectl apply -k kustomized

kubectl get configmap -l from=kustomize -o jsonpath='{.items[*].data}'

kubectl replace -f settings.yaml

kubectl create -f settings.yaml

kubectl delete -f settings.yaml

kubectl delete -f settings.yaml

kubectl delete -f settings.yaml --ignore-not-found

kubectl get replicasets -o name | wc -l

kubectl delete deployment shop --cascade=orphan

kubectl get replicasets -o name | wc -l

kubectl delete replicasets --all --cascade=foreground | wc -l

kubectl get pods

kubectl delete namespace apply
