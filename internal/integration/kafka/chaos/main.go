package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

func main() {
	if told := os.Getenv(ordersVariable); told != "" {
		var o orders
		err := json.Unmarshal([]byte(told), &o)
		if err == nil {
			err = consume(o)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "consumer:", err)
			os.Exit(1)
		}
		return
	}
	c := config{}
	flag.DurationVar(&c.length, "for", 30*time.Second, "how long there is harm")
	flag.DurationVar(&c.ttl, "ttl", 2*time.Second, "of the leases")
	flag.IntVar(&c.rate, "rate", 500, "records a second")
	flag.IntVar(&c.processes, "processes", 3, "that consume")
	flag.BoolVar(&c.noFence, "no-fence", false, "consume into the database without its fence: harm must be found")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	faults, err := run(ctx, c)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "chaos:", err)
		stop()
		os.Exit(2)
	case faults > 0:
		fmt.Println("WRONG:", faults, "faults")
		stop()
		os.Exit(1)
	}
	fmt.Println("GOOD: each record had its effect once, in order")
}
