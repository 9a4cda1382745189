// Package serve answers questions about a posterior over HTTP: predictions for test rows, for
// numbers and for pictures, the training examples that speak for and against a prediction, and what
// would be predicted without some of them. The command gpexplain serve uses it.
//
//	p, err := funcgp.Open(ctx, "loans.gp", nil)
//	if err != nil { … }
//	h, err := serve.Handler(ctx, p, nil)
//	if err != nil { … }
//	mux.Handle("/loans/", http.StripPrefix("/loans", h))
//
// A Server is a handler whose posterior can be replaced while it runs. It keeps nothing of a
// request after the answer, so requests are answered in any order and several at a time. The paths
// and the JSON are described by openapi.json, which the server gives at /openapi.json. A refusal
// has a status from 400 to 499, 500 for a bug, or 503 while the server is not ready or too busy,
// and its body is one JSON object that says why.
//
// Unless Options.Token is set, the handler authenticates nobody, and its answers contain training examples: put
// authentication in front of it. It refuses requests from pages of other sites. It also refuses a Host header other
// than an IP address, localhost and the names in Options.Hosts, so that a page of another site cannot reach it
// through a host name of its own.
package serve
