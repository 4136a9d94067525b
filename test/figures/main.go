// Command figures prints how large the product is and how it hangs together: lines, folders, imports that
// run back up within a folder, dependencies, and how many functions a request enters. It is make figures.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"text/tabwriter"
)

func main() {
	verbose := flag.Bool("v", false, "list the functions that the requests enter")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := printFigures(ctx, os.Stdout, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

// A figure is a row of the table.
type figure struct {
	what  string
	value int
	goal  string
}

func printFigures(ctx context.Context, out io.Writer, verbose bool) error {
	var all []figure
	for _, measure := range []func(context.Context) ([]figure, error){measureSize, measureArrows, measureDependencies} {
		list, err := measure(ctx)
		if err != nil {
			return err
		}
		all = append(all, list...)
	}
	requests, err := measureRequests(ctx)
	if err != nil {
		return err
	}
	for _, r := range requests {
		all = append(all, figure{"functions entered by " + r.name, len(r.entered), r.goal})
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range all {
		fmt.Fprintf(table, "%s\t%d\t%s\n", f.what, f.value, f.goal)
	}
	if err := table.Flush(); err != nil || !verbose {
		return err
	}
	for _, r := range requests {
		fmt.Fprintf(out, "\n%s\n", r.name)
		for _, f := range r.entered {
			fmt.Fprintln(out, " ", f)
		}
	}
	return nil
}
