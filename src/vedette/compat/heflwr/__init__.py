"""heflwr's monitors and its log: the same imports, calls and answers, by the monitors of ours."""
