package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// tls is nil without -cacert.
func (o options) tls() (*tls.Config, error) {
	if o.cacert == "" {
		if o.cert != "" || o.key != "" {
			return nil, errors.New("-cert and -key need -cacert")
		}
		return nil, nil
	}
	text, err := os.ReadFile(o.cacert)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	if !c.RootCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate", o.cacert)
	}
	if o.cert != "" || o.key != "" {
		own, err := tls.LoadX509KeyPair(o.cert, o.key)
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{own}
	}
	return c, nil
}
