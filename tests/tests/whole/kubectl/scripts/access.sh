# Who may do what: `kubectl auth`, `--as`, tokens of service accounts, refusals.

kubectl create namespace access

kubectl auth whoami

kubectl auth can-i create pods

kubectl auth can-i create pods --as=anna

kubectl auth can-i --list --as=anna | sort

kubectl create serviceaccount robot

kubectl create role reader --verb=get,list --resource=configmaps --resource-name=settings

kubectl create role lister --verb=list --resource=pods,configmaps,deployments.apps/scale

kubectl create rolebinding robots --role=lister --serviceaccount=access:robot

kubectl create rolebinding annas --role=reader --user=anna --group=testers

kubectl auth can-i list configmaps --as=system:serviceaccount:access:robot

kubectl auth can-i list configmaps --as=system:serviceaccount:access:robot -n default

kubectl auth can-i delete configmaps --as=system:serviceaccount:access:robot

kubectl auth can-i get configmaps/settings --as=nobody --as-group=testers

kubectl auth can-i get configmaps/other --as=nobody --as-group=testers

kubectl auth can-i list deployments.apps/scale --as=system:serviceaccount:access:robot

kubectl auth can-i get /healthz --as=anna

kubectl auth can-i get /metrics --as=anna

kubectl auth can-i --list --as=system:serviceaccount:access:robot | sort

kubectl get configmaps --as=anna

kubectl get configmap settings --as=anna

kubectl create configmap settings --from-literal=a=1

kubectl get configmap settings --as=anna -o jsonpath='{.data.a}'

kubectl delete configmap settings --as=anna

kubectl --token="$(kubectl create token robot)" auth whoami

kubectl --token="$(kubectl create token robot)" get configmaps -o name

kubectl --token="$(kubectl create token robot)" get secrets

kubectl --token="$(kubectl create token robot)" create configmap other --from-literal=a=1

kubectl --token="$(kubectl create token robot)" get nodes

kubectl --token="$(kubectl create token robot)" patch configmap settings -p '{"data":{"a":"2"}}'

kubectl --token="$(kubectl create token robot)" get pods --watch

kubectl --token=nonsense get configmaps

kubectl create token nobody

kubectl create token robot --duration=1s

kubectl create token robot --audience=somebody-else | wc -w

kubectl --token="$(kubectl create token robot --audience=somebody-else)" get configmaps

kubectl create role everything --verb='*' --resource='*' --as=system:serviceaccount:access:robot

# Users who may write Roles cannot grant rights that they do not have.

kubectl create role role-writer --verb=create,update,get --resource=roles,rolebindings

kubectl create rolebinding role-writers --role=role-writer --serviceaccount=access:robot

kubectl create role small --verb=list --resource=pods --as=system:serviceaccount:access:robot

kubectl create role big --verb=delete --resource=pods --as=system:serviceaccount:access:robot

kubectl create rolebinding big --clusterrole=cluster-admin --serviceaccount=access:robot --as=system:serviceaccount:access:robot

kubectl patch rolebinding robots --type=merge -p '{"roleRef":{"name":"reader"}}'

kubectl describe clusterrole view | head -20

kubectl get clusterrole cluster-admin -o jsonpath='{.rules}'

kubectl get clusterrolebinding cluster-admin -o jsonpath='{.subjects}'

kubectl get pods --as=anna --as-group=system:masters

kubectl get pods --as=robot --as-uid=1 --as-user-extra=a=b 2>&1 | head -1

kubectl delete serviceaccount robot

kubectl auth can-i list configmaps --as=system:serviceaccount:access:robot

kubectl delete namespace access
