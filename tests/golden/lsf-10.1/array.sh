#!/bin/sh
elements='/home/a user/logs/0f3a.elements'
while read -r index launch token restarts; do
  [ "$index" = "$LSB_JOBINDEX" ] && break
done <"$elements" || exit 1
echo "$LSB_JOBID" >>"$elements.$index" || exit 1
restarts="$((restarts + $(wc -l <"$elements.$index") - 1))"
[ "$restarts" = 0 ] || token="$token-r$restarts"
export PERDURE_TOKEN="$token"
exec python -P -m perdure.cli.work --store 's t' \
  --launch "$launch" --token "$token" --restarts "$restarts"
