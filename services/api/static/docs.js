// No request leaves the host: the document is ours, and the remote validator is off.
SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#reference",
  deepLinking: true,
  validatorUrl: null,
  docExpansion: "none",
});
