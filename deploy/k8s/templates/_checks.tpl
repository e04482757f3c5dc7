{{- /* Refuse what a schema cannot see: values that contradict each other. */ -}}

{{- /* What would cut off work, or scale twice. Takes (dict "root" $ "name" name "profile" profile). */ -}}
{{- define "duebook.check" -}}
{{- $settings := include "duebook.settings" (dict "root" .root "settings" .profile.settings) | fromYaml -}}
{{- $at := printf "profiles.%s" .name -}}
{{- $grace := int (default "45" $settings.GRACE_SECONDS) -}}
{{- $deadline := int (default "20" $settings.ACTION_DEADLINE_SECONDS) -}}
{{- $lease := int (default "300" $settings.LEASE_SECONDS) -}}
{{- if le (int .profile.gracePeriodSeconds) (int (add $grace .profile.preStopSeconds)) -}}
{{- fail (printf "%s.gracePeriodSeconds (%d) must be more than GRACE_SECONDS (%d) + preStopSeconds (%d)"
    $at (int .profile.gracePeriodSeconds) $grace (int .profile.preStopSeconds)) -}}
{{- end -}}
{{- if lt $grace (int (add $deadline 15)) -}}
{{- fail (printf "%s: GRACE_SECONDS (%d) must be at least ACTION_DEADLINE_SECONDS (%d) + 15" $at $grace $deadline) -}}
{{- end -}}
{{- if le $lease (int (add $deadline 5)) -}}
{{- fail (printf "%s: LEASE_SECONDS (%d) must be more than ACTION_DEADLINE_SECONDS (%d) + 5" $at $lease $deadline) -}}
{{- end -}}
{{- $renew := int (default "30" $settings.RENEW_SECONDS) -}}
{{- if gt (int (mul 3 $renew)) $lease -}}
{{- fail (printf "%s: RENEW_SECONDS (%d) must be at most a third of LEASE_SECONDS (%d)" $at $renew $lease) -}}
{{- end -}}
{{- if has (default "127.0.0.1" $settings.HEALTH_HOST) (list "127.0.0.1" "localhost" "::1") -}}
{{- fail (printf "%s: HEALTH_HOST must not be of the pod alone: probes come from outside; say 0.0.0.0 or ::" $at) -}}
{{- end -}}
{{- if and (eq .name "main") (has $settings.API_HOST (list "127.0.0.1" "localhost" "::1")) -}}
{{- fail (printf "%s: API_HOST must not be of the pod alone: the Service is outside; say 0.0.0.0 or ::" $at) -}}
{{- end -}}
{{- if and (eq .name "main") (eq $settings.API_PORT $settings.HEALTH_PORT) -}}
{{- fail (printf "%s: API_PORT and HEALTH_PORT must differ, both are %s" $at $settings.API_PORT) -}}
{{- end -}}
{{- if .profile.autoscaling.enabled -}}
{{- include "duebook.checkBounds" (dict "at" (printf "%s.autoscaling" $at) "bounds" .profile.autoscaling) -}}
{{- end -}}
{{- with .profile.queueScaling -}}
{{- if .enabled -}}
{{- include "duebook.checkBounds" (dict "at" (printf "%s.queueScaling" $at) "bounds" .) -}}
{{- if $.profile.autoscaling.enabled -}}
{{- fail (printf "%s: autoscaling and queueScaling exclude each other, enable one of them" $at) -}}
{{- end -}}
{{- if not (has "AMQP_URL" $.profile.secret.keys) -}}
{{- fail (printf "%s.queueScaling needs AMQP_URL among %s.secret.keys" $at $at) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "duebook.checkBounds" -}}
{{- if gt (int .bounds.minReplicas) (int .bounds.maxReplicas) -}}
{{- fail (printf "%s.minReplicas (%d) must be at most its maxReplicas (%d)"
    .at (int .bounds.minReplicas) (int .bounds.maxReplicas)) -}}
{{- end -}}
{{- end }}

{{- /* Profiles that have to agree: all of those named have a key, or none has. */ -}}
{{- define "duebook.checkKey" -}}
{{- $with := list -}}
{{- $without := list -}}
{{- range $name := .names -}}
{{- $profile := get $.root.Values.profiles $name -}}
{{- if not $profile.enabled -}}
{{- else if has $.key $profile.secret.keys -}}
{{- $with = append $with $name -}}
{{- else -}}
{{- $without = append $without $name -}}
{{- end -}}
{{- end -}}
{{- if and $with $without -}}
{{- fail (printf "%s is among profiles.*.secret.keys of %s, but not of %s: all of them need it, or none"
    .key (join ", " $with) (join ", " $without)) -}}
{{- end -}}
{{- end }}

{{- define "duebook.checkAll" -}}
{{- $workers := list "trigger-worker" "action-worker" -}}
{{- include "duebook.checkKey" (dict "root" . "key" "AMQP_URL" "names" (prepend $workers "cron-scheduler")) -}}
{{- include "duebook.checkKey" (dict "root" . "key" "REDIS_URL" "names" (prepend $workers "main")) -}}
{{- if has "ENCRYPTION_KEYS" .Values.profiles.main.secret.keys -}}
{{- include "duebook.checkKey" (dict "root" . "key" "ENCRYPTION_KEYS" "names" (prepend $workers "main")) -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.profiles.main.enabled) -}}
{{- fail "ingress.enabled needs profiles.main.enabled: it leads to the API" -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) -}}
{{- fail "ingress.enabled needs a host among ingress.hosts, such as [{host: duebook.example.com}]" -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.settings.PUBLIC_URL) -}}
{{- fail "ingress.enabled needs settings.PUBLIC_URL: tracking links begin with this address" -}}
{{- end -}}
{{- if and .Values.certificateAuthorities.secret .Values.certificateAuthorities.configMap -}}
{{- fail "certificateAuthorities: say one of secret and configMap, not both" -}}
{{- end -}}
{{- end }}
