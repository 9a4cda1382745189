// Command gpexplain explains the predictions of a trained network as sums
// over its training examples, with calibrated uncertainty.
//
//	gpexplain explain                             # explain a prediction of the built-in network
//	gpexplain explain --index 24 --html page.html # another one, as a page
//	gpexplain predict --json                      # predict every test row
//	gpexplain serve                               # a page and a JSON API, on this machine
//	gpexplain train --data digits:2000 --classes 4,9 --epochs 5 --lbfgs 20 --out net.onnx
//	gpexplain fit -o digits.gp --method nystrom  # a posterior of any size, saved
//	gpexplain explain --posterior digits.gp      # answers from it
//	gpexplain explain --model net.onnx --data digits:2000
//
// Run gpexplain help VERB for the flags of a verb, and gpexplain help for what the
// exit status says; where it is not 0, there is one line on standard error.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	_ "github.com/funcgp/funcgp/cmd/gpexplain/internal/limits" // too low ones end the program in one line
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/job"
)

func main() {
	debug.SetTraceback("crash") // the runtime's fatal errors, such as no memory, are SIGABRT, and not the status 2
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		signal.Notify(signals, syscall.SIGHUP)
	}
	var first os.Signal // written before ctx is done
	go func() {
		// The first signal ends the work in order, a second one the process.
		first = <-signals
		signal.Reset()
		cancel()
	}()
	code := job.Status(os.Stderr, "gpexplain", console.Words(), run(ctx, os.Stdout, os.Stderr, os.Args[1:]))
	if s, ok := map[os.Signal]int{syscall.SIGTERM: job.StatusTerminated, syscall.SIGHUP: job.StatusHungUp}[first]; ok && code == job.StatusInterrupted {
		code = s
	}
	os.Exit(code)
}

// run executes one command line.
func run(ctx context.Context, stdout, stderr io.Writer, args []string) error {
	args, err := argumentsOf(args)
	if err != nil {
		return err
	}
	return runOn(ctx, console.New(args, stdout, stderr))
}

// runOn executes the command line of a console.
func runOn(ctx context.Context, c *console.Console) error {
	root := newRoot(c)
	defer c.Close()
	err := root.ExecuteContext(ctx)
	c.Clear()
	if c.Out.Err != nil {
		return c.Out.Err
	}
	if _, ok := errors.AsType[*job.UsageError](err); err == nil || c.Running || ok {
		return err
	}
	// Cobra refuses only wrong command lines before a verb runs.
	return job.Usagef("%v; see gpexplain help", err)
}
