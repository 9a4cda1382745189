// Package serve answers questions about a posterior over HTTP: predictions of test
// rows, of numbers and of pictures, the training examples that speak for and against
// them, and what would be predicted without some of them. gpexplain serve is its client.
//
//	p, err := funcgp.Open(ctx, "loans.gp", nil)
//	if err != nil { … }
//	h, err := serve.Handler(ctx, p, nil)
//	if err != nil { … }
//	mux.Handle("/loans/", http.StripPrefix("/loans", h))
//
// A Server is such a handler that takes another posterior while it answers. It holds nothing
// of a request once it is answered, so requests are answered in any order and several at a
// time. The paths and the JSON are described by openapi.json, which the server gives at
// /openapi.json. Every refusal is a status from 400 to 499, 500 for a bug, or 503 while the
// server is not ready or has too much to do, with one JSON object that says why.
//
// Unless Options.Token is set, the handler asks nobody who they are, and answers with training
// examples: put what asks in front of it. It refuses requests from pages of other sites, and a Host header other than an
// address, localhost and Options.Hosts, so that no such page reaches it by a name of its own.
package serve
