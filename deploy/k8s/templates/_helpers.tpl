{{- define "duebook.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{- define "duebook.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "duebook.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "duebook.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "duebook.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/name: {{ include "duebook.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- /* Labels that a selector may name: they never change. Takes (dict "root" $ "profile" name). */ -}}
{{- define "duebook.selector" -}}
app.kubernetes.io/name: {{ include "duebook.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .profile }}
{{- end }}

{{- define "duebook.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end }}

{{- define "duebook.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "duebook.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end }}

{{- /* The settings of a process as a map of texts in YAML; its own win. Takes (dict "root" $ "settings" own). */ -}}
{{- define "duebook.settings" -}}
{{- $all := dict -}}
{{- range $settings := list .root.Values.settings .settings -}}
{{- range $key, $value := $settings -}}
{{- /* Helm reads numbers as floats, and would write a million as 1e+06. */ -}}
{{- $_ := set $all $key (kindIs "string" $value | ternary $value (printf "%d" (int64 $value))) -}}
{{- end -}}
{{- end -}}
{{- toYaml $all -}}
{{- end }}

{{- /* The environment of a container. Takes (dict "root" $ "settings" own "secret" secret). */ -}}
{{- define "duebook.environment" -}}
{{- $settings := include "duebook.settings" . | fromYaml -}}
{{- range $key := keys $settings | sortAlpha }}
- name: {{ $key }}
  value: {{ get $settings $key | quote }}
{{- end }}
{{- if include "duebook.authorities" .root }}
- name: SSL_CERT_FILE
  value: /run/duebook/ca/ca.crt
{{- end }}
{{- $secret := .secret }}
{{- $files := eq .root.Values.secretsAs "files" }}
{{- range $key := $secret.keys }}
{{- if $files }}
- name: {{ $key }}_FILE
  value: /run/secrets/duebook/{{ $key }}
{{- else }}
- name: {{ $key }}
  valueFrom:
    secretKeyRef:
      name: {{ $secret.name }}
      key: {{ $key }}
{{- end }}
{{- end }}
{{- end }}

{{- define "duebook.mounts" -}}
- name: tmp
  mountPath: /tmp
{{- if eq .root.Values.secretsAs "files" }}
- name: secrets
  mountPath: /run/secrets/duebook
  readOnly: true
{{- end }}
{{- if include "duebook.authorities" .root }}
- name: authorities
  mountPath: /run/duebook/ca
  readOnly: true
{{- end }}
{{- end }}

{{- define "duebook.volumes" -}}
- name: tmp
  emptyDir:
    sizeLimit: 64Mi
{{- if eq .root.Values.secretsAs "files" }}
- name: secrets
  secret:
    secretName: {{ .secret.name }}
    defaultMode: 0440
    items:
      {{- range .secret.keys }}
      - key: {{ . }}
        path: {{ . }}
      {{- end }}
{{- end }}
{{- with include "duebook.authorities" .root }}
- name: authorities
  {{- . | nindent 2 }}
    items:
      - key: {{ $.root.Values.certificateAuthorities.key }}
        path: ca.crt
{{- end }}
{{- end }}

{{- /* Where the certificates of your own authorities are; empty without any. */ -}}
{{- define "duebook.authorities" -}}
{{- with .Values.certificateAuthorities -}}
{{- if .secret -}}
secret:
  secretName: {{ .secret }}
  defaultMode: 0444
{{- else if .configMap -}}
configMap:
  name: {{ .configMap }}
{{- end -}}
{{- end -}}
{{- end }}

{{- /* Egress to the name service and to our own servers. */ -}}
{{- define "duebook.egress" -}}
- ports:
    - port: 53
      protocol: UDP
    - port: 53
      protocol: TCP
{{- range .Values.networkPolicy.servers }}
- to:
    - ipBlock:
        cidr: {{ .cidr | quote }}
  ports:
    {{- range .ports }}
    - port: {{ . }}
    {{- end }}
{{- end }}
{{- end }}

{{- /* The sessions that a process has on PostgreSQL. Takes (dict "root" $ "settings" own "profile" name). */ -}}
{{- define "duebook.sessions" -}}
{{- $pool := int (default "4" (include "duebook.settings" . | fromYaml).DB_POOL_SIZE) -}}
{{- if eq .profile "main" -}}
{{- add $pool 1 -}}
{{- else if eq .profile "cron-scheduler" -}}
2
{{- else -}}
{{- add $pool 5 -}}
{{- end -}}
{{- end }}
