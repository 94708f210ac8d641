/** The entry point: mounts the app. */
import { mount } from "svelte";
import "uplot/dist/uPlot.min.css";
import "./lib/theme.css";
import App from "./App.svelte";

mount(App, { target: document.getElementById("app")! });
