// Package serve answers questions about one posterior over HTTP: predictions of test
// rows, of numbers and of pictures, the training examples that speak for and against
// them, and what would be predicted without some of them.
//
//	svc, err := serve.New(ctx, &serve.Config{Problem: p, Posterior: q, …})
//	if err != nil { … }
//	server := serve.NewServer(&serve.Limits{})
//	server.Ready(svc)
//	err = server.Serve(ctx, listener)
//
// A Service holds nothing of a request once it is answered, so requests are answered in
// any order and several at a time. The paths and the JSON are described by openapi.json,
// which the server gives at /openapi.json. Every refusal is a status from 400 to 499, or
// 503 while the server is not ready or has too much to do, with one JSON object that says
// why.
package serve
